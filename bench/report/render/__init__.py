"""The report for people: `report.md` and `report.html`, pure functions of the report and its evidence."""
