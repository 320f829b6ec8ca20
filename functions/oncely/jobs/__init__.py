"""Ready-made job types, one file each. `shipped` lists them; a worker imports only its own."""
