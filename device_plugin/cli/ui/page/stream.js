// The stream of changes: server-sent events, read with fetch, because only fetch sends the token in a header.

import { PIECE, turn } from "./turn.js";

const FIRST_DELAY = 300;
const LAST_DELAY = 5000;
// Milliseconds of silence after which the stream counts as lost: it says every 5 s that it lives.
const SILENCE = 15000;

// Bytes that are decoded at once: a browser hands over up to 2 MiB.
const BYTES = 64 << 10;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Read the stream until nobody is logged in, with headers for each request. `hear(event, value, at)` gets each message and when it came; `tell` gets the state. */
export async function follow(headers, hear, tell) {
  let delay = FIRST_DELAY;
  for (;;) {
    try {
      const answer = await fetch("/changes", { headers, cache: "no-store" });
      if (answer.status === 401) return tell("refused");
      if (answer.status === 503) {
        tell("busy");
      } else if (answer.ok) {
        delay = FIRST_DELAY;
        tell("live");
        await read(answer.body.getReader(), hear);
        tell("lost");
      } else {
        tell("lost");
      }
    } catch {
      tell("lost");
    }
    await pause(delay);
    delay = Math.min(delay * 2, LAST_DELAY);
  }
}

async function read(reader, hear) {
  const decoder = new TextDecoder();
  let rest = "";
  let began = performance.now();
  for (;;) {
    const watch = setTimeout(() => reader.cancel(), SILENCE);
    const { value, done } = await reader.read();
    clearTimeout(watch);
    if (done) return;
    const at = performance.now();
    for (let from = 0; from < value.length; from += BYTES) {
      const parts = (rest + decoder.decode(value.subarray(from, from + BYTES), { stream: true })).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        if (performance.now() - began > PIECE) {
          await turn();
          began = performance.now();
        }
        const message = /^event: (\w+)\ndata: (.*)$/s.exec(part);
        if (message) hear(message[1], JSON.parse(message[2]), at);
      }
    }
  }
}

/** An answer for one card or pod. */
export async function ask(headers, path, query) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { headers, cache: "no-store" });
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return answer.json();
}
