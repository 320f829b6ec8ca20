"""HubSpot's error responses."""

from collections.abc import Mapping, Sequence
from typing import Any

from oncely.testing.sandbox.http_messages import SandboxRequest, SandboxResponse


class HubSpotApiError(Exception):
    """An error response with the fields of HubSpot's error object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        category: str = "VALIDATION_ERROR",
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {"status": "error", "message": message, "category": category}
        if errors:
            self.body["errors"] = list(errors)

    def to_response(self, request: SandboxRequest) -> SandboxResponse:
        return SandboxResponse(self.status, {**self.body, "correlationId": request.request_id})


def not_found_error(contact_id: str) -> HubSpotApiError:
    """A contact that does not exist or is archived."""
    message = f"Object not found.  objectId are usually numeric. ({contact_id})"
    return HubSpotApiError(message, status=404, category="OBJECT_NOT_FOUND")


def unknown_property_error(name: str) -> HubSpotApiError:
    """A property that does not exist."""
    message = f'Property values were not valid: Property "{name}" does not exist'
    errors = [{"message": message, "code": "PROPERTY_DOESNT_EXIST", "in": name}]
    return HubSpotApiError(message, errors=errors)


def too_large_error(message: str, *, status: int) -> HubSpotApiError:
    """An error of HubSpot's front end, without the fields of its API."""
    error = HubSpotApiError(message, status=status)
    error.body = {"message": message}
    return error


def rate_limit_error(policy: str, message: str) -> HubSpotApiError:
    """A request beyond a rate limit, with its name."""
    error = HubSpotApiError(message, status=429, category="RATE_LIMITS")
    error.body |= {"errorType": "RATE_LIMIT", "policyName": policy}
    return error


def duplicate_value_error(name: str, value: str, holder: str, *, named: bool) -> HubSpotApiError:
    """A unique value that another contact has.

    Most responses contain only the contact's id, without a status or the property's name.
    """
    message = f"Contact already exists. Existing ID: {holder}"
    if not named:
        error = HubSpotApiError(message, status=409, category="CONFLICT")
        del error.body["status"]
        return error
    detail = f"A contact with {name} {value} already exists. Existing ID: {holder}"
    errors = [{"message": detail, "in": name}]
    return HubSpotApiError(message, status=409, category="OBJECT_ALREADY_EXISTS", errors=errors)
