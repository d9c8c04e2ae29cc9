"""What is shown is compared by its words: figures, folders and the order of rows may differ, wording may not."""

from __future__ import annotations

from typing import Any

from tests import printed


def _shown(text: str, kind: str = "text/html") -> list[dict[str, Any]]:
    return [{"output_type": "display_data", "data": {kind: text}}]


def test_figures_times_folders_and_the_order_of_rows_are_no_difference() -> None:
    first = "<td>12.5 ms, 3 slices</td><td>Mul 1,024 (82 %)</td><td>/a/b/train.py(7), npuprof-gate-k3_x9z1a</td>"
    again = "<td>Mul 7 (&lt; 0.1 %)</td><td>980 \u00b5s, 1 slice</td><td>/c/train.py(12), npuprof-gate-zz_04bcd</td>"
    assert printed.differences(_shown(first), _shown(again)) == []
    bars = ["stream |\u2582\u2587| 3 slices, longest Mul 3 ms", "stream |\u2588 | 4 slices, longest Mul 1 \u00b5s"]
    assert printed.differences(_shown(bars[0], "text/plain"), _shown(bars[1], "text/plain")) == []


def test_other_words_are_a_difference_unless_they_are_marked() -> None:
    saved, executed = _shown("gain 5 ms<br>its peers"), _shown("gain 7 ms<br>ranks alike")
    assert printed.differences(saved, executed) == ["text/html - its peers", "text/html + ranks alike"]
    assert printed.differences(saved, executed, ("peers", "^ranks")) == []
    assert printed.differences(_shown("a b", "text/plain"), _shown("b c", "text/plain")) == [
        "text/plain - a",
        "text/plain + c",
    ]


def test_output_kinds_differ_and_stream_parts_do_not() -> None:
    parts = [{"output_type": "stream", "name": "stdout", "text": text} for text in ("one ", "two")]
    whole = [{"output_type": "stream", "name": "stdout", "text": "one two"}]
    assert printed.differences(parts, whole) == []
    assert printed.differences(whole, [{**whole[0], "name": "stderr"}]) == ["kinds: saved stdout; executed stderr"]
    assert printed.differences(whole, []) == ["kinds: saved stdout; executed "]


def test_titles_and_texts_are_words() -> None:
    plot = {"layout": {"title": {"text": "Steps<br>3 of 4"}, "yaxis": {"title": {"text": "time"}}}}
    other = {"layout": {"title": {"text": "Steps<br>5 of 9"}, "yaxis": {"title": {"text": "share"}}}}
    kind = "application/vnd.plotly.v1+json"
    saved = [{"output_type": "display_data", "data": {kind: plot, "image/svg+xml": "<text>Steps</text>"}}]
    executed = [{"output_type": "display_data", "data": {kind: other, "image/svg+xml": "<text>Steps</text>"}}]
    assert printed.differences(saved, executed) == [f"{kind} - time", f"{kind} + share"]


def test_outliers_are_figures_of_a_busy_machine() -> None:
    usual = "5.02 ms a step (mean of 18 steps, the loop of line 2)"
    for longer in ("4.59 ms as usual, and 430 µs since 2 steps take", "5 ms as usual, and 20 µs since 1 step takes"):
        assert printed.words(usual.replace("steps,", f"steps: {longer} longer,")) == printed.words(usual)


def test_named_idle_lines_are_load_dependent() -> None:
    one, two = "5 ms Python; at In [3], line 4 (42.9 %)", "4 ms Python; at main.py:7 (50 %) and In [3], line 4 (40 %)"
    bound = "; an upper bound, since Python stacks were recorded"
    for kind in ("text/html", "text/plain"):
        for end in ("", bound):
            for other in ("6 ms Python", one, two):
                assert printed.differences(_shown(one + end, kind), _shown(other + end, kind)) == []
    wrapped = f"{two}{bound}".replace(" and ", " and\n")
    assert printed.differences(_shown(f"{one}{bound}", "text/plain"), _shown(wrapped, "text/plain")) == []
    assert printed.differences(_shown(f"{one}{bound}"), _shown(one)) != []


def test_titles_cut_by_digits_are_equal() -> None:
    saved, executed = (
        [{"output_type": "stream", "name": "stdout", "text": f"CANN · rank 0 · …{cut} | | 4 slices"}]
        for cut in ("thread 7269", "hread 17269")
    )
    assert not printed.differences(saved, executed)
    other = [{"output_type": "stream", "name": "stdout", "text": "CANN · rank 0 · device 1 | | 4 slices"}]
    assert printed.differences(saved, other)


def test_the_parts_of_a_line_of_code_are_one_line() -> None:
    before = "<pre><span>device host</span>\n1 ms 2 ms  (the run)\n</pre>"
    after = (
        '<pre><span>device<span class="npuprof-more"> host</span></span>\n'
        '1 ms<span class="npuprof-more"> 2 ms</span><span class="npuprof-rest">  (the run)</span>\n</pre>'
    )
    assert printed.differences(_shown(before), _shown(after)) == []
