"""What administrative calls take and give: frozen values, one module per noun, no I/O."""
