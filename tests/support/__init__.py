"""What tests share. Each room says what it holds; `waiting` has the limits of every wait."""
