// The token of the address. It leaves the address at once, so that no history, link or screenshot has it. It stays in this
// tab; another tab of this page asks the open ones for it, so that a link of a view works.

const KEY = "token";
const WAIT = 400;

/** The token, or an empty text if no tab knows it. */
export async function findToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", "#/cards");
  }
  const known = sessionStorage.getItem(KEY);
  const others = new BroadcastChannel(KEY);
  if (known) {
    others.onmessage = ({ data }) => data === "ask" && others.postMessage({ token: sessionStorage.getItem(KEY) });
    return known;
  }
  return new Promise((resolve) => {
    others.onmessage = ({ data }) => {
      if (!data.token) return;
      sessionStorage.setItem(KEY, data.token);
      others.onmessage = null;
      resolve(data.token);
    };
    others.postMessage("ask");
    setTimeout(() => resolve(sessionStorage.getItem(KEY) ?? ""), WAIT);
  });
}
