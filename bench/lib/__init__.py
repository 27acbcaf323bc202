"""What the commands in bench/ share. Read in this order: rows (what is measured), peers (who), measure
(how one is measured), results (what follows), page (what is shown)."""
