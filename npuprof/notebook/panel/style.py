"""How the panel looks: the front end's own colours, light or dark."""

STYLE = """<style>
.npuprof-panel {
  border: 1px solid var(--jp-border-color2, GrayText); border-radius: 4px; padding: 8px 12px; margin: 2px; gap: 4px;
  overflow: hidden;
}
.npuprof-panel .npuprof-row { flex-wrap: wrap; align-items: center; gap: 4px 8px; overflow: visible; }
.npuprof-panel .npuprof-row > * { overflow: visible; }
.npuprof-panel .widget-toggle-buttons { display: flex; align-items: center; width: auto; margin: 2px; }
.npuprof-panel .widget-toggle-buttons > .widget-label { width: auto; margin-right: 4px; }
.npuprof-panel .npuprof-phase {
  display: inline-block; min-width: 90px; padding: 2px 12px 2px 0; line-height: 18px; white-space: nowrap;
}
.npuprof-panel .npuprof-phase::before { content: "●"; padding-right: 6px; color: var(--jp-ui-font-color3, GrayText); }
.npuprof-panel .npuprof-recording::before { color: var(--jp-error-color1, #c62828); }
.npuprof-panel .npuprof-armed::before { color: var(--jp-warn-color1, #b26a00); }
.npuprof-panel .npuprof-decoding::before { color: var(--jp-brand-color1, #1976d2); }
.npuprof-panel .npuprof-failed::before { content: "▲"; color: var(--jp-error-color1, #c62828); }
.npuprof-panel .npuprof-state { min-height: 46px; overflow: visible; }
.npuprof-panel .npuprof-state > * { flex: none; overflow: visible; }
.npuprof-panel .npuprof-state .widget-html-content { line-height: 18px; }
.npuprof-panel .npuprof-state > :nth-child(2) { flex: 1 1 0; min-width: 0; }
.npuprof-panel .npuprof-state > :nth-child(2) > .widget-html-content { min-width: 0; width: 100%; }
.npuprof-panel .npuprof-line { line-height: 18px; padding: 2px 0; overflow-wrap: anywhere; }
.npuprof-panel .npuprof-changing { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.npuprof-panel .npuprof-problem { color: var(--jp-error-color1, #c62828); line-height: 1.4; }
.npuprof-panel .npuprof-lacking { color: var(--jp-ui-font-color2, GrayText); line-height: 1.4; }
.npuprof-panel .npuprof-title { margin: 4px 0; font-size: 15px; overflow-wrap: anywhere; }
.npuprof-panel .npuprof-question { border-left: 4px solid var(--jp-warn-color1, #b26a00); padding-left: 8px; }
.npuprof-panel .npuprof-question .widget-html-content { line-height: 1.4; overflow-wrap: anywhere; }
.npuprof-panel .npuprof-switches {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)); overflow: visible;
}
.npuprof-panel .npuprof-switches > * { width: auto; margin: 0 2px; }
.npuprof-panel code { white-space: pre-wrap; overflow-wrap: anywhere; }
</style>"""
