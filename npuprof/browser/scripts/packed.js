// @ts-check
// Columns of whole numbers, as `npuprof/browser/packing.py` packs them.

/** @param {Uint8Array} bytes @returns {Promise<Uint8Array>} */
async function inflated(bytes) {
    const stream = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * The numbers of a column.
 * @param {Uint8Array} body all columns
 * @param {[number, number, number, number, number, number]} place offset, length, rows, bytes of a number, whether differences, least value
 * @returns {Promise<Float64Array>}
 */
async function unpacked(body, [offset, length, count, width, isDelta, low]) {
    if (!width) return new Float64Array(count).fill(low);
    const planes = await inflated(body.subarray(offset, offset + length));
    if (planes.length !== count * width) throw new Error("the saved data is damaged");
    return width > 4 ? wideNumbers(planes, count, width, isDelta, low) : numbersOf(planes, count, width, isDelta, low);
}

/** The numbers of planes, of at most four bytes each. @param {Uint8Array} planes @param {number} count @param {number} width @param {number} isDelta @param {number} low */
function numbersOf(planes, count, width, isDelta, low) {
    const codes = new Uint32Array(count), numbers = new Float64Array(count);
    for (let plane = 0; plane < width; plane += 1) {
        for (let at = 0, from = plane * count, shift = 8 * plane; at < count; at += 1) codes[at] |= planes[from + at] << shift;
    }
    if (!isDelta) for (let at = 0; at < count; at += 1) numbers[at] = low + codes[at];
    else {
        for (let at = 0, value = low; at < count; at += 1) {
            value += (codes[at] >>> 1) ^ -(codes[at] & 1);
            numbers[at] = value;
        }
    }
    return numbers;
}

/** The numbers of more planes. @param {Uint8Array} planes @param {number} count @param {number} width @param {number} isDelta @param {number} low */
function wideNumbers(planes, count, width, isDelta, low) {
    const numbers = new Float64Array(count).fill(isDelta ? 0 : low);
    for (let plane = width - 1, factor = 2 ** (8 * plane); plane >= 0; plane -= 1, factor /= 256) {
        for (let at = 0, from = plane * count; at < count; at += 1) numbers[at] += planes[from + at] * factor;
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
