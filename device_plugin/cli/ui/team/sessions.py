"""Sessions of people who logged in with a token of the cluster; they are in memory only, and end with the process.

A browser holds only a random name of its session. The memory holds the hash of that name, and the token, which is
checked again every CHECK_SECONDS.
"""

import hashlib
import hmac
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from device_plugin.cli.ui.team.reviews import RefusedTokenError
from device_plugin.cli.ui.team.visitor import Person
from device_plugin.core.errors import VgpuError
from device_plugin.core.token_bucket import TokenBucket
from device_plugin.kube.errors import ApiError

# Seconds after which the API server is asked again about the token of a session that is used.
CHECK_SECONDS = 120.0
# Seconds until it is asked again after a failure, and for which a session opens the page without an answer.
AGAIN_SECONDS, UNCHECKED_SECONDS = 5.0, 300.0
# Most sessions of a user (service accounts of a namespace count as one), and of all users.
MOST_OF_USER, MOST_SESSIONS = 16, 1000
# Most characters of a token: the API server takes 1 MiB of headers, a token with many groups has 10 KiB.
MOST_TOKEN = 16 << 10
# Most logins that the API server is asked about: in a second and at once, of all addresses and of one; and at the same
# time.
LOGINS_PER_SECOND, LOGIN_BURST = 10.0, 40.0
LOGINS_OF_ADDRESS, BURST_OF_ADDRESS = 2.0, 20.0
LOGINS_AT_ONCE = 4
# Addresses whose logins are counted; after so many others an address begins anew.
MOST_ADDRESSES = 1000


class BusyLoginError(VgpuError):
    """There are too many logins now; the API server was not asked.

    Cure: try again in a few seconds.
    """


@dataclass(slots=True)
class Session:
    """One login. `csrf` must come with each request that changes something. Times are of the sessions' clock."""

    person: Person
    token: str = field(repr=False)
    csrf: str = field(repr=False)
    began: float
    used: float
    checked: float
    """When the API server accepted the token last."""
    asked: float
    """When the API server was asked last."""
    checking: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def accepts(self, csrf: str) -> bool:
        """True if a request with this secret is from a page that this session opened."""
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())


class Sessions:
    """The sessions by the hash of their names. `review` returns the owner of a token; any thread may use it."""

    def __init__(
        self, review: Callable[[str], Person], clock: Callable[[], float], *,
        session_seconds: float, idle_seconds: float,
    ) -> None:  # fmt: skip
        """A session ends `session_seconds` after its begin, or `idle_seconds` after its last use.

        `review` raises RefusedTokenError, ApiError.
        """
        self._review = review
        self._clock = clock
        self._session_seconds = session_seconds
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._sessions: dict[bytes, Session] = {}
        self._rate = TokenBucket(LOGINS_PER_SECOND, LOGIN_BURST, clock)
        self._of_address: OrderedDict[str, TokenBucket] = OrderedDict()
        self._logins = threading.BoundedSemaphore(LOGINS_AT_ONCE)

    def __len__(self) -> int:
        """The number of sessions."""
        return len(self._sessions)

    def begin(self, token: str, address: str) -> str:
        """Returns the name of a new session for the owner of a token, which comes from a network address.

        Raises RefusedTokenError, BusyLoginError, ApiError.
        """
        if (
            not token
            or len(token) > MOST_TOKEN
            or not (token.isascii() and token.isprintable())
            or " " in token
        ):
            raise RefusedTokenError("this is no token")
        if not self._may_ask(address) or not self._logins.acquire(blocking=False):
            raise BusyLoginError("too many logins at the same time: try again in a few seconds")
        try:
            person = self._review(token)
        finally:
            self._logins.release()
        name, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._make_room(person.owner)
            self._sessions[_hash(name)] = Session(
                person, token, secrets.token_urlsafe(32), began=now, used=now, checked=now, asked=now
            )
        return name

    def find(self, name: str) -> Session | None:
        """Returns the session of this name, and counts it as used. The API server checks the token if a check is due.

        None if it has ended, if its token is refused, or if the token was not confirmed for UNCHECKED_SECONDS.
        """
        key = _hash(name)
        with self._lock:
            session, now = self._sessions.get(key), self._clock()
            if session is None:
                return None
            if self._ended(session, now):
                del self._sessions[key]
                return None
            session.used = now
        # Another request of the same browser waits for the answer.
        with session.checking:
            if now - session.asked >= CHECK_SECONDS and not self._check(session, now):
                self._remove(key, session)
                return None
            return session if now - session.checked < UNCHECKED_SECONDS else None

    def end(self, name: str) -> None:
        """End a session; its name opens nothing any more."""
        with self._lock:
            self._sessions.pop(_hash(name), None)

    def _check(self, session: Session, now: float) -> bool:
        """Ask about the session's token; returns false if the token is refused, or belongs to another user now."""
        session.asked = now
        try:
            person = self._review(session.token)
        except RefusedTokenError:
            return False
        except ApiError:
            session.asked = now - CHECK_SECONDS + AGAIN_SECONDS
            return True
        session.checked = now
        return person == session.person

    def _remove(self, key: bytes, session: Session) -> None:
        with self._lock:
            if self._sessions.get(key) is session:
                del self._sessions[key]

    def _ended(self, session: Session, now: float) -> bool:
        return now - session.began >= self._session_seconds or now - session.used >= self._idle_seconds

    def _may_ask(self, address: str) -> bool:
        """Count a login; returns false if too many came lately from this address, or from all addresses together."""
        with self._lock:
            rate = self._of_address.get(address)
            if rate is None:
                rate = self._of_address[address] = TokenBucket(
                    LOGINS_OF_ADDRESS, BURST_OF_ADDRESS, self._clock
                )
            self._of_address.move_to_end(address)
            if len(self._of_address) > MOST_ADDRESSES:
                self._of_address.popitem(last=False)
            return rate.take() and self._rate.take()

    def _make_room(self, owner: str) -> None:
        """Remove ended sessions. If the owner still has too many, or there are too many in all, remove one more.

        It is the session unused for the longest time: of this owner, or else of the owner with the most sessions.
        """
        now = self._clock()
        self._sessions = {key: each for key, each in self._sessions.items() if not self._ended(each, now)}
        counts = Counter(each.person.owner for each in self._sessions.values())
        if counts[owner] >= MOST_OF_USER:
            self._drop_oldest(owner)
        elif len(self._sessions) >= MOST_SESSIONS:
            self._drop_oldest(counts.most_common(1)[0][0])

    def _drop_oldest(self, owner: str) -> None:
        oldest = min(
            (key for key, each in self._sessions.items() if each.person.owner == owner),
            key=lambda key: self._sessions[key].used,
        )
        del self._sessions[oldest]


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode(errors="replace")).digest()
