"""Many runs at once: which ranks there are, whose clocks they kept, and reading them in processes side by side."""
