"""Roles and policies whose access to the job table is not limited to certain keys, and why.

A test compares the list with the template, and docs/privacy-and-security.md prints it.
"""

from collections.abc import Mapping
from typing import Final

# By the path of the role's or policy's construct.
WIDER_RIGHTS: Final[Mapping[str, str]] = {
    "AdminPage/Read": "shows jobs of every type, and searches them through the indexes; only reads",
    "AdminPage/Repair": "repairs and exports jobs of every type",
    "DeadLetters/Receive": "records dead letters of every job type, including types that "
    "it does not know",
    "FirstSetup/SetUp": "scans the job table once, because only an empty table gets an identity",
    "PaymentAudit/Audit": "finds jobs of every type by a reference of the provider; only reads",
    "Policies/Eraser": "erases personal data in jobs of every type, and deletes versions of "
    "archived objects; never attach it permanently",
    "Policies/Operator": "repairs jobs of every type from the command line",
    "Policies/Reader": "shows jobs of every type on the command line; only reads",
    "Reconciler/Find": "reads the index of due jobs, which has no job type in its key, and the age "
    "of due jobs",
    "Reconciler/Resolve": "resolves due jobs of every type, including types that a rollback made "
    "unknown",
    "Stream/Publish": "publishes ended jobs of every type",
}
