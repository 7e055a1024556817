"""Makes the committed chart, reference pages, rules and boards from the code; and the site, which is not committed."""
