"""Generates the chart, reference pages, rules and boards, which are committed; and the site, which is not committed."""
