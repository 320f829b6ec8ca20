"""The admin page: every route but the page's own files needs a token."""

from typing import Any

from oncely.admin_page.http_api import READER_GROUPS, REPAIRER_GROUPS
from oncely.handlers.read_jobs import ROUTES as READ
from oncely.handlers.repair_jobs import ROUTES as REPAIR
from tests.infra.assembly import Assembly

PUBLIC = {"GET /", "GET /config.json", "GET /page/{version}/{file}"}


def routes(assembly: Assembly) -> dict[str, dict[str, Any]]:
    found = assembly.properties("AWS::ApiGatewayV2::Route").values()
    return {route["RouteKey"]: route for route in found}


def test_api_routes_match_handlers(prod: Assembly) -> None:
    assert set(routes(prod)) == set(READ) | set(REPAIR)


def test_only_page_routes_need_no_token(prod: Assembly) -> None:
    kinds = {key: route["AuthorizationType"] for key, route in routes(prod).items()}

    assert {key for key, kind in kinds.items() if kind == "NONE"} == PUBLIC
    assert set(kinds.values()) == {"NONE", "JWT"}


def test_every_route_with_token_names_its_groups() -> None:
    assert {key for key, route in READ.items() if not route.groups} == PUBLIC
    assert {route.groups for route in READ.values() if route.groups} == {READER_GROUPS}
    # Support agents may ask the providers, with the read-only key, and change nothing.
    asking = {key for key, route in REPAIR.items() if route.groups == READER_GROUPS}
    assert asking == {"GET /api/resolve", "GET /api/lookup"}
    others = {route.groups for key, route in REPAIR.items() if key not in asking}
    assert others == {REPAIRER_GROUPS}


def test_tokens_belong_to_this_pool_and_client(prod: Assembly) -> None:
    authorizer = prod.only("AWS::ApiGatewayV2::Authorizer")
    (client_id,) = (
        id_ for id_, one in prod.resources.items() if one["Type"] == "AWS::Cognito::UserPoolClient"
    )

    assert authorizer["JwtConfiguration"]["Audience"] == [{"Ref": client_id}]
    assert "cognito-idp." in str(authorizer["JwtConfiguration"]["Issuer"])


def test_pool_disables_sign_up_and_requires_mfa(prod: Assembly) -> None:
    (pool,) = prod.of_type("AWS::Cognito::UserPool").values()
    properties = pool["Properties"]

    assert properties["AdminCreateUserConfig"]["AllowAdminCreateUserOnly"] is True
    assert properties["MfaConfiguration"] == "ON"
    assert properties["EnabledMfas"] == ["SOFTWARE_TOKEN_MFA"]
    policy = properties["Policies"]["PasswordPolicy"]
    assert policy["MinimumLength"] >= 14
    kinds = ("Lowercase", "Uppercase", "Numbers", "Symbols")
    assert all(policy[f"Require{kind}"] for kind in kinds)
    assert pool["DeletionPolicy"] == "Retain"
    assert properties["DeletionProtection"] == "ACTIVE"


def test_sign_in_uses_code_flow_without_client_secret(prod: Assembly) -> None:
    client = prod.only("AWS::Cognito::UserPoolClient")

    assert client["GenerateSecret"] is False
    assert client["AllowedOAuthFlows"] == ["code"]
    assert client["ExplicitAuthFlows"] == ["ALLOW_REFRESH_TOKEN_AUTH"]
    assert set(client["AllowedOAuthScopes"]) == {"openid", "email"}
    assert client["PreventUserExistenceErrors"] == "ENABLED"
    assert client["AccessTokenValidity"] == client["IdTokenValidity"] == 15


def test_sign_in_domain_is_unique_per_stack(prod: Assembly) -> None:
    prefix = prod.only("AWS::Cognito::UserPoolDomain")["Domain"]

    # UUIDs of two stacks can have the same last group.
    whole_uuid = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    assert prefix == {"Fn::Join": ["", ["oncely-prod-", whole_uuid]]}


def test_pool_has_support_and_operator_groups(prod: Assembly) -> None:
    groups = prod.properties("AWS::Cognito::UserPoolGroup").values()

    assert {group["GroupName"] for group in groups} == {"support", "operator"}


def test_requests_are_logged_throttled_and_same_origin(prod: Assembly) -> None:
    stage = prod.only("AWS::ApiGatewayV2::Stage")

    assert stage["AccessLogSettings"]["DestinationArn"]
    assert "authorization" not in stage["AccessLogSettings"]["Format"].lower()
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] <= 100
    assert "CorsConfiguration" not in prod.only("AWS::ApiGatewayV2::Api")
