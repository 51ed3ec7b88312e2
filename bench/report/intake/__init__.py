"""Where a report that is to be verified comes from: a folder, an archive, an address.

What is fetched or unpacked here was made by anybody. It ends as a flat folder of plain files with the names that a
report's files have, none larger than its kind may be; `bench.report.verify` then trusts that folder no more than any
other.
"""
