# docker build -t reason . && docker run --rm -v "$PWD/runs:/reason/runs" reason solve sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
# with a GPU: --build-arg TORCH_INDEX=https://pypi.org/simple, and docker run --gpus all
FROM python:3.12-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /reason
COPY . .
RUN pip install --no-cache-dir -c constraints.txt torch --extra-index-url $TORCH_INDEX
RUN pip install --no-cache-dir -c constraints.txt -e .
ENTRYPOINT ["reason"]
