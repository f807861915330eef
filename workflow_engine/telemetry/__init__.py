"""What happens, told as it happens."""
