"""Networks of other projects, each beside its own inference code: `make networks`. pytest collects nothing here."""
