// @ts-check
// What a widget of the explorer is: the timeline, the flame graph or a table, as its setup says.

const UNSEEN_MS = 3000;  // after which a timeline that nobody sees asks for the run, for the other views

export default () => {
    /** @type {any} */
    let store = null;
    /** @type {any} */
    let show = null;
    const shown = (/** @type {any} */ model) => (model.get("setup").view === "flame" ? liveFlame(model) : liveTable(model));
    const isTimeline = (/** @type {any} */ model) => model.get("setup").view === "timeline";
    return {
        /** @param {{model: any}} context */
        initialize({ model }) {
            if (isTimeline(model)) {
                store = makeStore(model);
                setTimeout(store.greet, UNSEEN_MS);
            }
            else show = shown(model);
        },
        /** @param {{model: any, el: HTMLElement}} context */
        render({ model, el }) {
            /** @type {any} */
            let close = () => {};
            const open = () => {
                try {
                    el.replaceChildren();
                    if (isTimeline(model)) close = timelineView(store ??= makeStore(model), model, el);
                    else close = (show ??= shown(model))(el);
                } catch (error) {
                    el.replaceChildren(make("div", { class: "failed", role: "alert" }, `npuprof: this view could not be drawn: ${error} `,
                        make("button", { type: "button", text: "Try again", onclick: open })));
                }
            };
            open();
            return () => close();
        },
    };
};
