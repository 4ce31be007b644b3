"""From a model's name to something that can be asked: by HTTP, through litellm, or on this machine.

Keys are read from environment variables, and from nowhere else. They are neither stored nor shown:
whatever an endpoint says passes `hide` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ragbench import local
from ragbench.arguments import amount, named, sendable
from ragbench.errors import ModelUnavailable, RagbenchError
from ragbench.hiding import hide, holds_secret, secrets, sounds_secret
from ragbench.llm.limits import retry_after
from ragbench.llm.replies import Reply, Unreadable, priced, read_reply
from ragbench.local import Key

Messages = Sequence[Mapping[str, Any]]
Send = Callable[[Messages, Mapping[str, Any]], Awaitable[Reply]]


class Target(NamedTuple):
    """Whom to ask and how."""

    model: str  # as the study calls it
    served: str  # as the endpoint calls it
    base_url: str | None  # None: litellm finds it
    key: Key
    timeout: float
    parameters: Mapping[str, Any]
    prices: Mapping[str, float] | None
    most: int | None = None  # calls at once that make sense
    place: str | None = None  # what the endpoint is called; its address when None
    key_env: str | None = None  # the variable that the key is read from; None: the provider's own


class Failure(Exception):
    """A try without a reply. `kind` says what is to be done about it.

    busy: come back later, perhaps after `wait` seconds · broken, timeout: try again · unreachable:
    try again, then give all up · unusable: give all up · rejected: this request only.
    """

    def __init__(self, kind: str, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.kind, self.text, self.wait = kind, text, wait


def target(
    model: str,
    *,
    base_url: str | None = None,
    key_env: str | None = None,
    timeout: float = 300.0,
    parameters: Mapping[str, Any] | None = None,
    prices: Mapping[str, float] | None = None,
) -> Target:
    """Whom `model` means. A local model is started, litellm is imported where it is needed.

    Raises:
        ModelUnavailable: the key is missing or cannot be sent, or the model cannot be started.
        RagbenchError: `base_url` is no address or holds a password, `key_env` is no name, or
            `prices` lack input or output.
    """
    named(model)
    amount("timeout", timeout)
    if prices is not None and not {"input", "output"} <= set(prices):
        raise RagbenchError(
            f"prices {dict(prices)}: give US dollars per million tokens, for instance "
            '{"input": 1, "output": 3, "cached": 0.1}.'
        )
    for name, price in (prices or {}).items():
        amount(f"prices: {name}", price, may_be_zero=True)
    given = {**defaults(model, base_url), **sendable(parameters or {})}
    if base_url is None and model.startswith("local/"):
        served = local.serve(model)
        return Target(
            model,
            model,
            served.base_url,
            served.key,
            timeout,
            given,
            {"input": 0.0, "output": 0.0},
            most=1,
            place="local",
        )
    if key_env is not None and (
        not _VARIABLE.fullmatch(key_env)
        or (key_env not in os.environ and (_LIKE_A_KEY.search(key_env) or hide(key_env) != key_env))
    ):
        raise RagbenchError(
            "key_env is the name of an environment variable, such as MY_KEY. What was given is "
            "none, and is not repeated here, as it may be the key."
        )
    if key_env is not None:
        holds_secret(key_env)
        if not _key(model, key_env):
            raise _unset(model, key_env)
    if base_url is None:
        key = _key(model, key_env) if key_env else Key()
        return Target(model, model, None, key, timeout, given, prices, key_env=key_env)
    if _address(base_url).username is not None:
        raise RagbenchError(
            f"the address {shown(base_url)} was given with a user or password in it. Leave them "
            "out; put a key into an environment variable, and name it: key_env."
        )
    key_env = key_env or "OPENAI_API_KEY"
    key = _key(model, key_env)
    return Target(model, model, base_url.rstrip("/"), key, timeout, given, prices, key_env=key_env)


def defaults(model: str, base_url: str | None = None) -> dict[str, Any]:
    """The parameters that are sent to `model` unless others are given."""
    return dict(local.PARAMETERS) if base_url is None and model.startswith("local/") else {}


_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LIKE_A_KEY = re.compile(r"[A-Za-z0-9]{16}|(?=[A-Za-z]*[0-9])[A-Za-z0-9]{12}")


def _key(model: str, variable: str) -> Key:
    """The key in an environment variable, without the space around it; empty when not set.

    Raises:
        ModelUnavailable: what is there cannot be sent as a key.
    """
    key = Key(os.environ.get(variable, "").strip())
    if key.isascii() and key.isprintable():
        return key
    raise ModelUnavailable(
        f"{model}: the environment variable {variable} holds what is no key: it has line breaks, "
        "control characters or letters outside ASCII in it."
    )


def _unset(model: str, variable: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{model}: the environment variable {variable} is not set; put the key there."
    )


def place_of(whom: Target) -> str:
    """What an endpoint is called in the study and in messages."""
    return whom.place or (shown(whom.base_url) if whom.base_url else whom.model.split("/")[0])


def shown(base_url: str) -> str:
    """An address without what may be secret in it: user, password, query, a key in its path.

    Raises:
        RagbenchError: it is no address.
    """
    parts = _address(base_url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, host + port, hide(parts.path), "", ""))


def _address(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        is_cut = parts.port is not None and "@" in parts.path  # a password with a slash in it
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not is_cut:
            return parts
    except (ValueError, AttributeError, TypeError):  # a port that is none, or no text at all
        pass
    told = re.sub(r"^.*(?=@)|[?#].*$", "***", str(base_url), flags=re.DOTALL)  # as in `shown`
    raise RagbenchError(
        f"{hide(told)!r} is no address of an endpoint; it looks like http://127.0.0.1:8000/v1."
    )


@contextlib.asynccontextmanager
async def opened(whom: Target) -> AsyncIterator[Send]:
    """A function that sends one request and gives the reply, or raises `Failure`."""
    opener = _by_litellm if whom.base_url is None else _by_http
    async with opener(whom) as send:
        yield send


# ---------------------------------------------------------------- HTTP


@contextlib.asynccontextmanager
async def _by_http(whom: Target) -> AsyncIterator[Send]:
    import aiohttp

    assert whom.base_url is not None
    parts = urlsplit(whom.base_url)
    url = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/chat/completions"))
    place = place_of(whom)
    hidden = secrets()  # looked up once: for each reply it would cost as much as reading it
    is_near = parts.hostname in ("127.0.0.1", "localhost", "::1")  # never by way of a proxy
    session = aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {whom.key!s}"} if whom.key else {},
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=whom.timeout, sock_connect=min(30.0, whom.timeout)),
        trust_env=not is_near,
        cookie_jar=aiohttp.DummyCookieJar(),
    )

    async def send(messages: Messages, parameters: Mapping[str, Any]) -> Reply:
        began = time.perf_counter()
        try:
            async with session.post(
                url,
                json={"model": whom.served, "messages": messages, **parameters},
                allow_redirects=False,
            ) as response:
                text = (await response.read()).decode("utf-8", "replace")
                status, headers = response.status, response.headers
        except aiohttp.ConnectionTimeoutError:
            raise Failure("unreachable", f"{place} does not accept connections") from None
        except TimeoutError:
            raise Failure("timeout", f"timeout: no answer within {whom.timeout:g} s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise Failure("unusable", f"{place}: {hide(str(error))}") from None
        except aiohttp.ClientConnectorError as error:
            raise Failure("unreachable", f"{place} cannot be reached: {error.strerror}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Failure("broken", f"the connection broke: {_line(str(error))}") from None
        reply = _read(status, headers, text, place, _about_key(whom), hidden)
        return reply._replace(
            seconds=round(time.perf_counter() - began, 3),
            endpoint=f"{place}#{reply.version}" if reply.version else place,
            cost=priced(reply, whom.prices) if whom.prices else None,
        )

    try:
        yield send
    finally:
        await session.close()


def _about_key(whom: Target, provider: str = "") -> str:
    """What helps where the key is refused: which variable it was read from."""
    if whom.key_env and not whom.key:
        return f"No key was sent, as {whom.key_env} is not set; set it, or name another: key_env."
    names = [whom.key_env] if whom.key_env else _variables(provider)
    named = " or ".join(names) or f"of {provider or place_of(whom)}"
    return f"Check the key in the environment variable {named}."


def _variables(provider: str) -> list[str]:
    """The environment variables that may hold the key of a provider."""
    start = provider.upper()
    found = (name for name in os.environ if start and name.startswith(start))
    return sorted(filter(sounds_secret, found))


def _read(
    status: int,
    headers: Mapping[str, str],
    text: str,
    place: str,
    about_key: str,
    hidden: Sequence[str],
) -> Reply:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if status == 200 and not (isinstance(body, Mapping) and body.get("error")):
        return _read_reply(body if body is not None else text, hidden)
    said = _message(body, text)
    if status == 200:  # some gateways put the error of their provider into a success
        code = body["error"].get("code") if isinstance(body["error"], Mapping) else None
        status = code if isinstance(code, int) else 502
    line = f"{place} says {status}" + (f": {said}" if said else "")
    return refused(status, line, text, retry_after(headers), about_key)


def _read_reply(body: Any, hidden: Sequence[str]) -> Reply:
    """The reply in `body`, without what is hidden: an endpoint may say the key, in any spelling.

    Raises:
        Failure: there is none.
    """
    try:
        reply = read_reply(body)
    except Unreadable as error:
        raise Failure("broken", _line(str(error))) from None
    kept = (reply.text, reply.reasoning, reply.version)
    text, reasoning, version = (part and hide(part, hidden) for part in kept)
    return reply._replace(text=text, reasoning=reasoning, version=version)


def refused(status: int, text: str, raw: str, wait: float | None, about_key: str) -> Reply:
    """What a status that is not success means; `about_key` helps where the key is refused.

    Raises:
        Failure: always, unless a filter has stopped the request: then that is the reply.
    """
    if status in (400, 403) and _FILTER.search(raw):
        return Reply(finish="filtered", error=f"filtered by the endpoint: {text}")
    if status == 429 and not _NO_MONEY.search(raw):
        raise Failure("busy", text, wait)
    if status == 529 or (status == 503 and wait is not None):
        raise Failure("busy", text, wait)
    if status in (408, 409, 425) or status >= 500:
        raise Failure("broken", text)
    if status in (401, 402, 403, 404, 405, 429) or status < 400:
        remedy = about_key if status == 401 else _REMEDY.get(300 if status // 100 == 3 else status)
        raise Failure("unusable", f"{text.rstrip('.')}. {remedy}" if remedy else text)
    raise Failure("rejected", text)


_FILTER = re.compile(r"content.?(filter|policy|management)|moderation|flagged", re.IGNORECASE)
_NO_MONEY = re.compile(r"insufficient_quota|billing", re.IGNORECASE)
_REMEDY = {
    300: "It sends one to another address: give the final one as base_url.",
    403: "Check what the key may be used for.",
    404: "Check the model's name and base_url (it ends in /v1, as a rule).",
}


def _message(body: Any, text: str) -> str:
    """What the body of an error says, in one line."""
    found = body
    for name in ("error", "message"):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
    if not isinstance(found, str):  # written anew, without escapes that a key could hide behind
        found = text if body is None else json.dumps(body, ensure_ascii=False)
    return _line(found)


def _line(text: str) -> str:
    """`text` in one line for a message: without secrets, of which a cut would leave a part."""
    text = " ".join(hide(text).split())
    return text if len(text) <= 300 else text[:299] + "…"


# ---------------------------------------------------------------- litellm


def _litellm() -> Any:
    # Without it the price list is fetched at import; the packaged one serves as well.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    return litellm


@contextlib.asynccontextmanager
async def _by_litellm(whom: Target) -> AsyncIterator[Send]:
    import openai  # whose exceptions litellm raises

    litellm = _litellm()
    litellm.suppress_debug_info = True
    try:
        _, provider, _, _ = litellm.get_llm_provider(whom.model)
    except Exception:
        raise ModelUnavailable(
            f"{whom.model!r} names no provider that litellm knows. Write provider/model "
            "(openai/…, anthropic/…), or give base_url= of an OpenAI-compatible endpoint."
        ) from None
    key, variable = whom.key, f"{provider.upper()}_API_KEY"
    if not whom.key_env and (written := Key(os.environ.get(variable, ""))):
        found = _key(whom.model, variable)
        if not found:
            raise _unset(whom.model, variable)
        if found != written:  # litellm would send the space around it
            key = found
    own = {"api_key": key} if key else {}
    hidden = secrets()

    async def send(messages: Messages, parameters: Mapping[str, Any]) -> Reply:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(whom.timeout):
                response = await litellm.acompletion(
                    model=whom.model,
                    messages=list(messages),
                    max_retries=0,
                    timeout=whom.timeout,
                    **own,
                    **parameters,
                )
        except (TimeoutError, openai.APITimeoutError):
            raise Failure("timeout", f"timeout: no answer within {whom.timeout:g} s") from None
        except Exception as error:
            reply = _understood(error, provider, whom)
        else:
            reply = _read_reply(json.loads(response.model_dump_json()), hidden)
            reply = reply._replace(cost=_litellm_cost(response, reply, whom))
        return reply._replace(
            seconds=round(time.perf_counter() - began, 3),
            endpoint=f"{provider}#{reply.version}" if reply.version else provider,
        )

    try:
        yield send
    finally:
        with contextlib.suppress(Exception):  # what it leaves open would warn later
            await getattr(litellm, "close_litellm_async_clients")()  # noqa: B009 (untyped)


def _understood(error: Exception, provider: str, whom: Target) -> Reply:
    """What an exception of litellm means."""
    import aiohttp
    import httpx
    import openai

    not_connected = (aiohttp.ClientConnectorError, httpx.ConnectError, ConnectionRefusedError)
    causes = [cause for cause in _causes(error) if isinstance(cause, not_connected)]
    if causes:  # litellm calls it an error of the server
        said = getattr(causes[-1], "strerror", None) or str(causes[-1])
        raise Failure("unreachable", f"{provider} cannot be reached: {_line(said)}") from None
    text = f"{provider} says: {_line(str(error))}"
    if _NO_KEY.search(str(error)):  # litellm calls it an error of the server
        keys = _litellm().validate_environment(whom.model)["missing_keys"] or [
            name for name in _variables(provider) if not os.environ[name].strip()
        ]
        named = f"Set {' or '.join(keys)} in the environment" if keys else "Set its variable"
        text = f"no key for {whom.model}. {named}, or name it: key_env."
        raise Failure("unusable", text) from None
    if isinstance(error, openai.APIConnectionError):
        raise Failure("unreachable", text) from None
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        raise Failure("broken", text) from None
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        codes = [getattr(error, name, "") for name in ("code", "type", "body")]
        kind = type(error).__name__  # ContentPolicyViolationError, for one
        raw = f"{error} {kind} {codes}"
        return refused(status, text, raw, retry_after(headers), _about_key(whom, provider))
    except Failure as failure:
        raise failure from None


def _causes(error: BaseException) -> list[BaseException]:
    """`error` and what it came from, the first cause last."""
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found


_NO_KEY = re.compile(r"missing (credentials|\S+ api key)|api_key client option", re.IGNORECASE)


def _litellm_cost(response: Any, reply: Reply, whom: Target) -> float | None:
    if whom.prices:
        return priced(reply, whom.prices)
    known = getattr(response, "_hidden_params", None) or {}
    if "response_cost" in known:  # worked out already, and dear to work out again
        return None if known["response_cost"] is None else float(known["response_cost"])
    try:
        return float(_litellm().completion_cost(response, model=whom.model))
    except Exception:  # no price known
        return None
