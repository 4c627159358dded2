"""The page in which trained networks compute in the browser: `reason play`."""
