// @ts-check
// Timelines above each other: one window and one cursor for all of them, without asking the kernel.

/** @typedef {{window?: {start: number, end: number}, cursor?: number | null, pointer?: number | null}} Shared */

/**
 * Tell the other timelines of a link, and hear them; what was told is kept for one that is drawn later.
 * @param {{name: string} | null | undefined} link @param {(told: Shared) => void} hear
 */
function linkOf(link, hear) {
    if (!link) return { tell() {}, close() {} };
    /** @type {Record<string, {last: Shared, views: Set<(told: Shared) => void>}>} */
    const all = (/** @type {any} */ (globalThis).npuprofLinks ??= {});
    const mine = (all[link.name] ??= { last: {}, views: new Set() });
    mine.views.add(hear);
    if (mine.last.window || mine.last.cursor !== undefined) hear(mine.last);
    return {
        /** @param {Shared} told */
        tell(told) {
            const { pointer: _, ...kept } = told;
            Object.assign(mine.last, kept);
            for (const view of mine.views) if (view !== hear) view(told);
        },
        close() { mine.views.delete(hear); },
    };
}
