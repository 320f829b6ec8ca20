"""How HubSpot says no."""

from collections.abc import Mapping, Sequence
from typing import Any

from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse

VALIDATION = "VALIDATION_ERROR"


class HubSpotApiError(Exception):
    """An answer that is not a success, with the fields of HubSpot's error object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        category: str = VALIDATION,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"status": "error", "message": message, "category": category}
        if errors:
            self.body["errors"] = list(errors)

    def to_response(self, request: SandboxRequest) -> SandboxResponse:
        """Give the refusal as an answer to this request."""
        return SandboxResponse(self.status, {**self.body, "correlationId": request.request_id})


def not_found_error(contact_id: str) -> HubSpotApiError:
    """Refuse a contact that does not exist, or is archived."""
    message = f"Object not found.  objectId are usually numeric. ({contact_id})"
    return HubSpotApiError(message, status=404, category="OBJECT_NOT_FOUND")


def unknown_property_error(name: str) -> HubSpotApiError:
    """Refuse a property that was never defined."""
    message = f'Property values were not valid: Property "{name}" does not exist'
    errors = [{"message": message, "code": "PROPERTY_DOESNT_EXIST", "in": name}]
    return HubSpotApiError(message, errors=errors)


def too_large_error(message: str, *, status: int) -> HubSpotApiError:
    """Turn a request away before HubSpot's own API reads it: without any field of HubSpot's."""
    refusal = HubSpotApiError(message, status=status)
    refusal.body = {"message": message}
    return refusal


def rate_limit_error(policy: str, message: str) -> HubSpotApiError:
    """Refuse a request beyond a limit, and name the limit."""
    refusal = HubSpotApiError(message, status=429, category="RATE_LIMITS")
    refusal.body |= {"errorType": "RATE_LIMIT", "policyName": policy}
    return refusal


def duplicate_value_error(name: str, value: str, holder: str, *, named: bool) -> HubSpotApiError:
    """Refuse a value of a unique property that another contact has.

    Most answers give only the contact's id, without a status and without the property's name.
    """
    if not named:
        refusal = HubSpotApiError(
            f"Contact already exists. Existing ID: {holder}", status=409, category="CONFLICT"
        )
        del refusal.body["status"]
        return refusal
    message = f"A contact with {name} {value} already exists. Existing ID: {holder}"
    return HubSpotApiError(
        f"Contact already exists. Existing ID: {holder}",
        status=409,
        category="OBJECT_ALREADY_EXISTS",
        errors=[{"message": message, "in": name}],
    )
