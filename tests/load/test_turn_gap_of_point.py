"""A point of the ladder may have a turn gap of its own."""

from bench.load.plan import PointPlan, Streams
from recipes.schema import Load, Point, TurnGap


def test_the_points_own_gap_goes_before_that_of_the_recipe() -> None:
    usual, own = (TurnGap(distribution="exponential", mean_s=mean) for mean in (4.0, 8.0))
    load = Load(ladder=[Point(streams=2), Point(streams=2, turn_gap=own)], turn_gap=usual, ramp_s=1.0, steady_s=1.0)
    models = [PointPlan.from_recipe(load, point=point, run=0, seed=1).model for point in (0, 1)]
    assert models == [Streams(count=2, gap=usual), Streams(count=2, gap=own)]
