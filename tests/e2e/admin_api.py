"""Users who sign in as a browser does: hosted page, authorization code, PKCE."""

import base64
import hashlib
import http.client
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.e2e.deployed_stack import StackClient

PASSWORD: Final = "Correct-Horse-7-Battery"
SUPPORT: Final = "api.support@example.com"
OPERATOR: Final = "api.operator@example.com"
UNGROUPED_USER: Final = "api.nobody@example.com"
GROUPS: Final = {SUPPORT: "support", OPERATOR: "operator"}

_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class ApiReply:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever a route answers
        return json.loads(self.text)


@dataclass(frozen=True)
class AdminApiClient:
    stack: StackClient
    tokens: dict[str, dict[str, str]] = field(default_factory=dict)

    def get(self, path: str, *, token: str | None = None, **query: str) -> ApiReply:
        asked = f"?{urlencode(query)}" if query else ""
        return self._call_api("GET", path + asked, token)

    def get_if_changed(self, path: str, first: ApiReply) -> ApiReply:
        return self._call_api("GET", path, None, known=first.headers["etag"])

    def post(self, path: str, body: object, *, token: str | None = None) -> ApiReply:
        text = body if isinstance(body, str) else json.dumps(body)
        return self._call_api("POST", path, token, text)

    def call(self, route: str, *, token: str | None = None) -> ApiReply:
        method, _, path = route.partition(" ")
        return self._call_api(method, path, token, "{}" if method == "POST" else None)

    def token(self, name: str) -> str:
        if name not in self.tokens:
            self.tokens[name] = self.sign_in(name)
        return self.tokens[name]["id_token"]

    def sign_in(self, name: str) -> dict[str, str]:
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        here = f"{self.stack.outputs['AdminUrl']}/"
        config = self.get("/config.json").json
        asked = {
            "response_type": "code",
            "client_id": config["client_id"],
            "redirect_uri": here,
            "scope": "openid email",
            "state": "as it was",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        page = self._call_engine("GET", f"/oauth2/authorize?{urlencode(asked)}")
        hidden = re.findall(r'<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"', page.text)
        filled = {name: unescape(value) for name, value in hidden}
        filled |= {"username": name, "password": PASSWORD}
        back = self._call_engine("POST", "/login", _FORM, urlencode(filled))
        query = parse_qs(urlsplit(back.headers["location"]).query)
        assert query["state"] == ["as it was"]
        grant = {
            "grant_type": "authorization_code",
            "client_id": config["client_id"],
            "code": query["code"][0],
            "redirect_uri": here,
            "code_verifier": verifier,
        }
        given = self._call_engine("POST", "/oauth2/token", _FORM, urlencode(grant))
        assert given.status == 200, given.text
        tokens: dict[str, str] = given.json
        return tokens

    def _call_api(
        self,
        method: str,
        path: str,
        token: str | None,
        body: str | None = None,
        known: str | None = None,
    ) -> ApiReply:
        # The engine routes by host name, which not every machine resolves.
        headers = {"host": urlsplit(self.stack.outputs["AdminUrl"]).netloc}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        if known is not None:
            headers["if-none-match"] = known
        return self._call_engine(method, path, headers, body)

    def _call_engine(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
    ) -> ApiReply:
        address = urlsplit(self.stack.engine.url)
        assert address.hostname is not None
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return ApiReply(answer.status, lowered, answer.read().decode())
        finally:
            connection.close()


def add_user(stack: StackClient, pool: str, name: str, group: str | None = None) -> None:
    cognito = stack.client("cognito-idp")
    cognito.admin_create_user(
        UserPoolId=pool, Username=name, TemporaryPassword=PASSWORD, MessageAction="SUPPRESS"
    )
    cognito.admin_set_user_password(
        UserPoolId=pool, Username=name, Password=PASSWORD, Permanent=True
    )
    if group is not None:
        cognito.admin_add_user_to_group(UserPoolId=pool, Username=name, GroupName=group)


def with_users(stack: StackClient) -> AdminApiClient:
    view: AdminApiClient = stack.once(_create_users)
    return view


def _create_users(stack: StackClient) -> AdminApiClient:
    for name in (SUPPORT, OPERATOR, UNGROUPED_USER):
        add_user(stack, stack.outputs["UserPoolId"], name, GROUPS.get(name))
    return AdminApiClient(stack)
