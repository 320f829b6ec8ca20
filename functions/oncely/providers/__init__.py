"""The providers, one folder each. `interfaces` has the Protocols that jobs use."""
