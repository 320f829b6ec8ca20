"""One folder per provider; `interfaces` is what jobs see of them."""
