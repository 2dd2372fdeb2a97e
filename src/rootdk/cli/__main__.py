"""``python -m rootdk.cli``, where the script is not on the path."""

from rootdk.cli import main

if __name__ == "__main__":
    main()
