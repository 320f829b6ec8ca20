"""The users of the admin page: a Cognito user pool without self sign-up, and two groups."""

from typing import Final

from aws_cdk import Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from oncely.operate.page_access import OPERATOR_GROUP, SUPPORT_GROUP
from oncely_cdk.nag import acknowledge
from oncely_cdk.stages import OncelySettings

_GROUPS: Final = {SUPPORT_GROUP: "reads jobs", OPERATOR_GROUP: "reads, repairs and exports jobs"}


class AdminUserPool(Construct):
    """The user pool, its groups, and its own sign-in page."""

    def __init__(self, scope: Construct, id_: str, *, stage: OncelySettings) -> None:
        super().__init__(scope, id_)
        self.pool = cognito.UserPool(
            self,
            "Pool",
            # An administrator adds users; the username is an email address.
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(username=True),
            sign_in_case_sensitive=False,
            mfa=cognito.Mfa.REQUIRED if stage.requires_mfa else cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_digits=True,
                require_lowercase=True,
                require_symbols=True,
                require_uppercase=True,
                temp_password_validity=Duration.days(3),
            ),
            # There is no phone or email for recovery: an administrator sets a new password.
            account_recovery=cognito.AccountRecovery.NONE,
            deletion_protection=stage.retain_data,
            removal_policy=RemovalPolicy.RETAIN if stage.retain_data else RemovalPolicy.DESTROY,
        )
        for name, what in _GROUPS.items():
            cognito.CfnUserPoolGroup(
                self,
                name.title(),
                user_pool_id=self.pool.user_pool_id,
                group_name=name,
                description=f"Oncely: {what}",
            )
        self._domain = self.pool.add_domain(
            "SignIn",
            cognito_domain=cognito.CognitoDomainOptions(domain_prefix=_domain_prefix(stage, self)),
        )
        acknowledge(self.pool, "COG8", "The Plus plan is priced per user; it is your choice.")
        if not stage.requires_mfa:
            reason = "Production requires MFA; elsewhere each user chooses."
            acknowledge(self.pool, "COG2", reason)

    @property
    def sign_in_url(self) -> str:
        return self._domain.base_url()

    def add_page_client(self, *addresses: str) -> cognito.UserPoolClient:
        """Add a public client for the page at these addresses (authorization code with PKCE)."""
        return self.pool.add_client(
            "Page",
            generate_secret=False,
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            # Only the sign-in page: a password alone must not yield a token that can change a user.
            auth_flows=cognito.AuthFlow(user_srp=False),
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.OPENID, cognito.OAuthScope.EMAIL],
                callback_urls=list(addresses),
                logout_urls=list(addresses),
            ),
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            # Tokens cannot be revoked, so they are short-lived: a removed user reads until then.
            # Repairs and exports ask for the current groups. A session lasts a working day.
            access_token_validity=Duration.minutes(15),
            id_token_validity=Duration.minutes(15),
            refresh_token_validity=Duration.hours(10),
        )


def _domain_prefix(stage: OncelySettings, scope: Construct) -> str:
    """A prefix that is unique in its region, by the whole UUID of the stack.

    A part is not unique: the last group identifies a CloudFormation host.
    """
    unique = Fn.select(2, Fn.split("/", Stack.of(scope).stack_id))
    return f"oncely-{stage.name}-{unique}"
