// @ts-check
// Bytes as text, as `npuprof/browser/packing.py` writes them.

const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#%()*+-;=?@^_{|}~,.:[]";

/** @param {string} text @returns {Uint8Array} */
function bytesOf(text) {
    const digits = new Uint8Array(128), words = Math.ceil(text.length / 5), last = LETTERS.length - 1;
    for (let at = 0; at <= last; at += 1) digits[LETTERS.charCodeAt(at)] = at;
    const view = new DataView(new ArrayBuffer(4 * words));
    for (let word = 0; word < words; word += 1) {
        let number = 0;
        for (let at = 5 * word; at < 5 * word + 5; at += 1) number = 85 * number + (at < text.length ? digits[text.charCodeAt(at)] : last);
        view.setUint32(4 * word, number);
    }
    return new Uint8Array(view.buffer, 0, text.length - words);
}
