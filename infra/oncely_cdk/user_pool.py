"""Who may sign in to the support view: a user pool without self sign-up, and two groups."""

from typing import Final

from aws_cdk import Acknowledgment, Duration, Fn, RemovalPolicy, Stack, Validations
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from oncely.admin_page.http_api import OPERATOR_GROUP, SUPPORT_GROUP
from oncely_cdk.stages import Stage

_GROUPS: Final = {
    SUPPORT_GROUP: "reads jobs",
    OPERATOR_GROUP: "reads, repairs and exports jobs",
}


class AdminUserPool(Construct):
    """The user pool, its groups, and its own sign-in page."""

    def __init__(self, scope: Construct, id_: str, *, stage: Stage) -> None:
        super().__init__(scope, id_)
        required = stage.sign_in_mfa == "required"
        self.pool = cognito.UserPool(
            self,
            "Pool",
            # People are added by whoever runs the stack; a user's name is the person's address.
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(username=True),
            sign_in_case_sensitive=False,
            mfa=cognito.Mfa.REQUIRED if required else cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_digits=True,
                require_lowercase=True,
                require_symbols=True,
                require_uppercase=True,
                temp_password_validity=Duration.days(3),
            ),
            # No phone and no mail to recover by: an administrator sets a new password.
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
        self._suppress_nag(required=required)

    @property
    def sign_in_url(self) -> str:
        """Where the sign-in page is."""
        return self._domain.base_url()

    def add_page_client(self, *addresses: str) -> cognito.UserPoolClient:
        """A public client for the page at these addresses: a code, proved by PKCE, no secret."""
        return self.pool.add_client(
            "Page",
            generate_secret=False,
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            # The sign-in page only: with a password alone nobody gets a token that changes a user.
            auth_flows=cognito.AuthFlow(user_srp=False),
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.OPENID, cognito.OAuthScope.EMAIL],
                callback_urls=list(addresses),
                logout_urls=list(addresses),
            ),
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            # A token cannot be taken back: it is short-lived, and a working day ends the session.
            access_token_validity=Duration.minutes(15),
            id_token_validity=Duration.minutes(15),
            refresh_token_validity=Duration.hours(10),
        )

    def _suppress_nag(self, *, required: bool) -> None:
        findings = {"AwsSolutions-COG8": "The Plus plan is priced by user; choose it yourself."}
        if not required:
            findings["AwsSolutions-COG2"] = "Production requires it; elsewhere it is each person's."
        for finding, reason in findings.items():
            Validations.of(self.pool).acknowledge(Acknowledgment(id=finding, reason=reason))


def _domain_prefix(stage: Stage, scope: Construct) -> str:
    """Unique in its region among all accounts: with the whole of the stack's own UUID.

    A part of it is not: the last names the machine of CloudFormation's that made the stack.
    """
    unique = Fn.select(2, Fn.split("/", Stack.of(scope).stack_id))
    return f"oncely-{stage.name}-{unique}"
