// @ts-check
// Columns of whole numbers, as `npuprof/browser/packing.py` packs them.

/** The bytes of base64 text. @param {string} text @returns {Uint8Array} */
function bytesOf(text) {
    const known = /** @type {any} */ (Uint8Array);
    if (known.fromBase64) return known.fromBase64(text);
    const binary = atob(text), bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
    return bytes;
}

/** @param {Uint8Array} bytes @returns {Promise<Uint8Array>} */
async function inflated(bytes) {
    const stream = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * The numbers of a column.
 * @param {Uint8Array} body all columns
 * @param {[number, number, number, number, number, number]} place offset, length, rows, bytes of a number, whether differences, least value
 * @returns {Promise<Float64Array>}
 */
async function unpacked(body, [offset, length, count, width, isDelta, low]) {
    const numbers = new Float64Array(count).fill(low);
    if (!width) return numbers;
    const planes = await inflated(body.subarray(offset, offset + length));
    if (planes.length !== count * width) throw new Error("the saved data is damaged");
    if (isDelta) numbers.fill(0);
    for (let plane = width - 1, factor = 2 ** (8 * plane); plane >= 0; plane -= 1, factor /= 256) {
        for (let at = 0, from = plane * count; at < count; at += 1) {
            if (planes[from + at]) numbers[at] += planes[from + at] * factor;
        }
    }
    if (!isDelta) return numbers;
    for (let at = 0, value = low; at < count; at += 1) {
        const step = numbers[at];
        value += step % 2 ? -(step + 1) / 2 : step / 2;
        numbers[at] = value;
    }
    return numbers;
}

/** Numbers whose bits are those of 32-bit floats. @param {Float64Array} bits */
const floatsOf = (bits) => new Float32Array(Uint32Array.from(bits).buffer);
