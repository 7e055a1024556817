// Logins to the page for a team. The session is a cookie that no script can read; nothing of it is kept in the browser's
// storage, and the token is only sent to the server. `vgpu ui` has no sessions: there the address has a token.

const JSON_BODY = { "Content-Type": "application/json" };

/** How people log in: `token`, `proxy`, or an empty text in `vgpu ui`. */
export const LOGIN = document.documentElement.dataset.login ?? "";

/** Who is logged in, as `{ user, csrf }`; null if nobody is. Rejects if the server does not answer. */
export async function session() {
  const answer = await fetch("/session", { cache: "no-store" });
  return answer.ok ? answer.json() : null;
}

/** Log in; an empty text, or why that is refused. */
export async function logIn(token) {
  const answer = await post("/login", { token });
  return answer.ok ? "" : (await answer.text()).trim();
}

/** Make a change, with the headers that prove who asks; what was done, or why it was refused. */
export async function change(headers, wanted) {
  return (await (await post("/change", wanted, headers)).text()).trim();
}

/** The headers of a request that changes something in a session. */
export function proof(csrf) {
  return { "X-Vgpu-Csrf": csrf };
}

/** End the session. */
export async function logOut(csrf) {
  await post("/logout", {}, proof(csrf));
}

function post(path, body, headers = {}) {
  return fetch(path, { method: "POST", headers: { ...JSON_BODY, ...headers }, body: JSON.stringify(body) });
}
