"""The groups of users who may sign in to the admin page."""

from typing import Final

SUPPORT_GROUP: Final = "support"  # reads
OPERATOR_GROUP: Final = "operator"  # reads, repairs and exports
