"""What is made from the code and committed: chart, reference pages, rules and boards; and the site, which is not."""
