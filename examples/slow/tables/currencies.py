"""Names of currencies."""

NAMES = {"EUR": "euro", "CHF": "franc", "USD": "dollar", "SEK": "krona"}
