"""What was replayed, padded, never used and missed, over the windows and nothing else."""

from __future__ import annotations

from bench.explain.graphs.coverage import Coverage, Window, coverage_of, within
from bench.observe.observations import GraphSteps, GraphTable

SIZES = (5, 10, 20, 40)
WINDOWS = [Window(run=0, start_s=100.0, end_s=140.0), Window(run=1, start_s=50.0, end_s=70.0)]


def table(t: float, *steps: tuple[int, int, str, int], run: int = 0) -> GraphTable:
    rows = tuple(
        GraphSteps.model_validate({"tokens": tokens, "padded": padded, "mode": mode, "count": count})
        for tokens, padded, mode, count in steps
    )
    return GraphTable(t=t, run=run, mode="FULL_AND_PIECEWISE", capture_sizes=SIZES, steps=rows)


def coverage(*tables: GraphTable) -> Coverage:
    found = coverage_of(tables, WINDOWS, 10.0)
    assert found is not None
    return found


def test_each_step_is_where_it_belongs() -> None:
    found = coverage(
        table(112.0, (5, 5, "FULL", 10), (15, 20, "FULL", 4), (17, 20, "PIECEWISE", 2), (300, 300, "NONE", 1)),
        table(122.0, (15, 20, "FULL", 1)),
    )
    used = {use.size: (use.full, use.piecewise, use.tokens, use.padded) for use in found.sizes}
    assert used == {5: (10, 0, 50, 0), 10: (0, 0, 0, 0), 20: (5, 2, 109, 31), 40: (0, 0, 0, 0)}
    assert found.unused == (10, 40)
    assert found.without == {300: 1}
    assert found.histogram == {5: 10, 15: 5, 17: 2, 300: 1}
    assert (found.steps, found.tokens, found.padded) == (18, 459, 31)
    assert found.covered == 17 / 18
    assert found.padding == 31 / 459
    assert (found.tables, found.left_out, found.covered_s, found.window_s) == (2, 0, 20.0, 60.0)


def test_only_tables_whose_whole_interval_lies_in_a_window_count() -> None:
    times = [90.0, 105.0, 110.0, 140.0, 140.9, 141.1, 200.0]
    inside = within([table(t, (5, 5, "FULL", 1)) for t in times], WINDOWS, 10.0)
    assert [one.t for one in inside] == [110.0, 140.0, 140.9]
    other_run = [table(t, (5, 5, "FULL", 1), run=1) for t in (55.0, 60.0, 110.0)]
    assert [one.t for one in within(other_run, WINDOWS, 10.0)] == [60.0]


def test_tables_left_out_are_counted() -> None:
    assert coverage(table(90.0, (5, 5, "FULL", 1)), table(120.0, (5, 5, "FULL", 1))).left_out == 1


def test_without_a_table_in_a_window_nothing_is_known() -> None:
    assert coverage_of([], WINDOWS, 10.0) is None
    assert coverage_of([table(90.0, (5, 5, "FULL", 1))], WINDOWS, 10.0) is None


def test_a_graph_that_is_not_in_the_list_is_shown_all_the_same() -> None:
    assert 7 in {use.size for use in coverage(table(120.0, (7, 7, "PIECEWISE", 1))).sizes}


def test_each_replica_tells_of_its_own_windows() -> None:
    one, two = (table(120.0, (5, 5, "FULL", 2)).model_copy(update={"replica": number}) for number in (0, 1))
    found = coverage(one, two)
    assert (found.histogram, found.covered_s, found.window_s) == ({5: 4}, 20.0, 2 * 60.0)
