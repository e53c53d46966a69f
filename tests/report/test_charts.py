"""The charts: right places, bounded, escaped."""

import re

import pytest

from graphwalker.report.charts import Series, interval_bar, line_chart, smoothed, thinned, ticks


def test_a_line_goes_through_its_points():
    chart = line_chart("t", [Series("up", [(0, 0), (10, 1)])], unit_range=True)
    assert re.search(r'class="line s0" d="M46\.0 190\.0L388\.0 12\.0"', chart)


def test_titles_and_names_are_escaped():
    chart = line_chart("<b>t</b>", [Series('a<script>"', [(0, 1), (1, 2)])], x_label="<i>", x_names=["<u>", "ok"])
    assert not re.search(r"<(?:b|script|i|u)>", chart) and "&lt;script&gt;&#34;" in chart


@pytest.mark.parametrize("points", [[(1, 5)], [(0, 0), (1, 0)], [(0, -1e9), (1, 1e9)], [(3, 1e-9), (4, 2e-9)]])
def test_odd_ranges_draw(points):
    chart = line_chart("t", [Series("s", points)])
    assert "nan" not in chart and "inf" not in chart and "<path" in chart


def test_nothing_to_draw_gives_nothing():
    assert line_chart("t", []) == "" == line_chart("t", [Series("s", [])])
    assert interval_bar(None, None, None) == ""


def test_long_lines_are_thinned_to_their_means():
    line = thinned(Series("s", [(i, float(i)) for i in range(10_000)]))
    assert len(line.points) <= 300 and line.points[0][1] == pytest.approx((len(range(34)) - 1) / 2)


def test_smoothing_keeps_places_and_means():
    points = [(float(i), float(i % 2)) for i in range(100)]
    assert [x for x, _ in smoothed(points)] == [x for x, _ in points]
    assert all(0.3 < y < 0.7 for _, y in smoothed(points)[10:-10])


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.31, 0.33), (-5, 1234), (7, 7), (0, 0), (-3, -3)])
def test_ticks_cover_the_range(low, high):
    found = ticks(low, high, 4)
    assert found[0] <= low <= high <= found[-1] and 2 <= len(found) <= 9
