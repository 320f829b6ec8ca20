"""The jobs of a shop, as a team would write them."""
