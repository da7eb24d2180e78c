"""What a release must do before it is uploaded: `make release-check`."""
