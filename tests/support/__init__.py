"""What tests share. Each package says what it holds; `waiting` has the limits of every wait."""
