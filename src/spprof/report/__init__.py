"""What people and programs read of a profile: tables, trees, differences, as text, Markdown, JSON and a page."""
