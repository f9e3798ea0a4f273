"""Planning and carrying out: observe, plan (pure), apply."""
