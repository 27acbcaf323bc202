"""Shared code of the commands in bench/. Read in this order: rows (what is measured), peers (which servers),
measure (how one server is measured), results (medians and ratios), page (how they are shown)."""
