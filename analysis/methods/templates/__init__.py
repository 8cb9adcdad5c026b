"""What is due to the template: measures of a run whose texts stand in several templates, template by template."""
