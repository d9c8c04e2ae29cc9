"""The bars of a saved run at any zoom: no slice is lost, and they light up with theirs."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from npuprof.browser.saved_run import save_run
from npuprof.browser.script import commented_saved_script
from npuprof.timeline.state import Timeline
from tests import factories

pytestmark = pytest.mark.browser

_LEVELS = 9
# For each level: its size, its bars, the slices in them, those in bars that are no longer than a pixel or alone, and
# the bars that are lit as the single slices in them are. Bars and single slices have the same order.
_LOOK = """async ([script, data, order, levels]) => {
    const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
    const names = "{ openRun, levelAt, levelSize, light }";
    const { openRun, levelAt, levelSize, light } = new Function(`${script}; return ${names};`)();
    const run = await openRun(bytes), lit = Uint8Array.from({ length: run.count }, (_, at) => Number(at % 97 === 5));
    levelAt(run, order[0]);
    light(run, lit);
    for (const at of order) levelAt(run, at);
    const single = levelAt(run, 0);
    const found = Array.from({ length: levels }, (_, number) => {
        const level = levelAt(run, number), size = levelSize(number);
        let slices = 0, narrow = 0, right = 0, begin = 0, isLit = 0;
        level.count.forEach((count, bar) => {
            const some = single.lit.subarray(slices, slices + count);
            isLit += level.lit[bar];
            right += Number(level.lit[bar] === Number(some.some(Boolean)) && level.begin[bar] === single.begin[slices]);
            narrow += Number(count === 1 || level.length[bar] < 2 * size);
            slices += count;
        });
        return { bars: level.count.length, slices, narrow, right, lit: isLit };
    });
    light(run, null);
    return { found, all: levelAt(run, levels - 1).lit.every(Boolean) && levelAt(run, 0).lit.every(Boolean) };
}"""


@pytest.mark.parametrize("order", [[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1], [4, 8, 1, 6, 2, 3, 5, 7]])
def test_levels_hold_every_slice_and_light_up_with_theirs(browser: Any, order: list[int]) -> None:
    saved = save_run(Timeline(factories.profile(6_000), factories.info()))
    script = commented_saved_script(with_grid=False).split("{\n    const place =")[0]
    page = browser.new_page()
    told = page.evaluate(_LOOK, [script, b64encode(saved.data).decode(), order, _LEVELS])
    page.close()
    levels = told["found"]
    assert told["all"]
    assert levels[0]["bars"] > 20_000 > levels[-1]["bars"]
    assert 0 < levels[0]["lit"] < levels[0]["bars"]
    for level in levels:
        assert level["slices"] == saved.slices
        assert level["right"] == level["narrow"] == level["bars"]
