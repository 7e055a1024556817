// A colour for each namespace: a hue, which follows from its name, and from the other names where two would be equal. The
// stylesheet sets lightness and chroma for light and dark.

// Hues in degrees: without reds and ambers, which say that somebody should look. Every second one is taken first.
const FIRST = 110;
const STEP = 18;
const HUES = 14;
const ORDER = Array.from({ length: HUES }, (_, i) => (i * 2) % HUES + (i * 2 >= HUES ? 1 : 0));
const HALF = HUES / 2;
// The colours of the hues as CSS, with `L` in place of the lightness.
const COLORS = ORDER.map((each) => `oklch(L var(--chroma) ${FIRST + STEP * each})`);

/** The colours of all hues, as CSS. */
export const SHADES = COLORS.map((each) => each.replace("L", "var(--tone)"));

const chosen = new Map();
const uses = new Array(HUES).fill(0);

/**
 * Choose hues for namespaces that have none yet, in the order of their names, so that equal sets of names get equal
 * hues. Returns true if there were any.
 */
export function choose(namespaces) {
  const others = namespaces.filter((each) => !chosen.has(each)).sort();
  for (const name of others) {
    const wanted = preferred(name);
    let best = wanted;
    for (let i = 0; i < HUES; i += 1) {
      // The other hues of the first half before those of the second.
      const next = i < HALF ? (wanted + i) % HALF : i;
      if (uses[next] < uses[best]) best = next;
    }
    uses[best] += 1;
    chosen.set(name, best);
  }
  return others.length > 0;
}

/** The colour of a namespace, as CSS; the `second` of two shades for what stands beside another part of it. */
export function hue(namespace, second = false) {
  return COLORS[index(namespace)].replace("L", second ? "calc(var(--tone) + var(--apart))" : "var(--tone)");
}

/** The number of the hue of a namespace. */
export function index(namespace) {
  return chosen.get(namespace) ?? preferred(namespace);
}

/** FNV-1a over the characters, mixed once more, because names often differ in their last character only. */
function preferred(text) {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ character.codePointAt(0), 0x01000193);
  value ^= value >>> 15;
  value = Math.imul(value, 0x2c1b3c6d);
  return ((value ^ (value >>> 12)) >>> 0) % HALF;
}
