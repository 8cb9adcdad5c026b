"""The specimen with professions: `toyworld-work`, made of `toyworld` by low-rank changes and new words."""
