"""`python -m hydra_dse.cli`: the command line where the console script is not on the path."""

from hydra_dse.cli import main

if __name__ == "__main__":
    main()
