"""Which weights an agent acts with: models, adapters, templates, files of a team."""
