// plotly.js takes long to load. anywidget waits two seconds for a widget, and hands it no message any more if those do
// not suffice: so the widget is there at once, and plotly.js comes later, once in a page.
const MESSAGES = ["addTraces", "deleteTraces", "moveTraces", "restyle", "relayout", "update", "animate",
    "removeLayoutProps", "removeTraceProps"].map((name) => `_py2js_${name}`);

function load(model) {
    const loaded = (globalThis.npuprofPlotly ??= {});
    return (loaded[model.get("_plotly_version")] ??= (async () => {
        const url = URL.createObjectURL(new Blob([model.get("_plotly")], { type: "text/javascript" }));
        try {
            return await import(url);
        } finally {
            URL.revokeObjectURL(url);
        }
    })());
}

// Keep what the kernel says of the figure until there is one that hears it.
function keep(model) {
    const kept = [];
    const listeners = MESSAGES.map((name) => [`change:${name}`, () => {
        if (model.get(name) !== null) kept.push([name, model.get(name)]);
    }]);
    for (const [event, listener] of listeners) model.on(event, listener);
    return () => {
        for (const [event, listener] of listeners) model.off(event, listener);
        for (const [name, message] of kept) {
            model.set(name, message);
            model.set(name, null);
        }
    };
}

export default () => {
    let figure;
    return {
        initialize({ model }) {
            const replay = keep(model);
            figure = load(model).then((plotly) => {
                const made = plotly.default();
                made.initialize({ model });
                replay();
                return made;
            });
        },
        async render(context) {
            return (await figure).render(context);
        },
    };
};
